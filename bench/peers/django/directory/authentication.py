from hashlib import sha256

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed

from .models import ApiKey


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer KEY`; the key's hash is looked up in the database on every request."""

    def authenticate(self, request):
        scheme, _, key = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer" or not key:
            return None
        found = ApiKey.objects.select_related("user").filter(hash=sha256(key).hexdigest()).first()
        if found is None or not found.user.is_active:
            raise AuthenticationFailed("unknown key")
        return found.user, found

    def authenticate_header(self, request):
        return "Bearer"
