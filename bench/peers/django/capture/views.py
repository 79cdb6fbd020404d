from rest_framework.decorators import api_view, authentication_classes, permission_classes
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.fields import DateTimeField
from rest_framework.response import Response

from .models import Event, Token

TIMES = DateTimeField()


@api_view(["POST"])
@authentication_classes([])
@permission_classes([])
def batch(request):
    """Stores all events of a batch with one statement, in one transaction."""
    token = Token.objects.filter(token=request.data["api_key"]).first()
    if token is None:
        raise AuthenticationFailed("unknown token")
    events = [
        Event(
            uuid=event["uuid"],
            token=token,
            event=event["event"],
            distinct_id=event["distinct_id"],
            properties=event["properties"],
            timestamp=TIMES.to_internal_value(event["timestamp"]),
        )
        for event in request.data["batch"]
    ]
    Event.objects.bulk_create(events, ignore_conflicts=True)
    return Response({"status": 1})
