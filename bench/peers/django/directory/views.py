from uuid import uuid4

from django.db import transaction
from django.db.models import F
from django.utils.text import slugify
from rest_framework import mixins, viewsets

from .models import Membership, Organization, Team
from .serializers import MemberSerializer, OrganizationSerializer

OWNER = 15


class OrganizationViewSet(mixins.CreateModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Only organizations the caller is a member of exist for the caller."""

    serializer_class = OrganizationSerializer

    def get_queryset(self):
        return (
            Organization.objects.filter(memberships__user=self.request.user)
            .annotate(membership_level=F("memberships__level"))
            .prefetch_related("teams")
        )

    @transaction.atomic
    def perform_create(self, serializer):
        slug = f"{slugify(serializer.validated_data['name'])}-{uuid4().hex[:8]}"
        organization = serializer.save(slug=slug)
        Membership.objects.create(organization=organization, user=self.request.user, level=OWNER)
        team = Team.objects.create(organization=organization, name="Default")
        # The answer shows what was just written, without reading it again.
        organization.membership_level, organization.member_count = OWNER, 1
        organization._prefetched_objects_cache = {"teams": [team]}


class MemberViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """The members of an organization the caller belongs to, each with its user, in one joined query."""

    serializer_class = MemberSerializer

    def get_queryset(self):
        return (
            Membership.objects.filter(
                organization=self.kwargs["organization"],
                organization__memberships__user=self.request.user,
            )
            .select_related("user")
            .order_by("joined_at", "id")
        )
