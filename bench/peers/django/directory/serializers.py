from rest_framework import serializers

from .models import Membership, Organization, Team, User


class TeamSerializer(serializers.ModelSerializer):
    class Meta:
        model = Team
        fields = ["id", "name", "created_at"]


class OrganizationSerializer(serializers.ModelSerializer):
    membership_level = serializers.IntegerField(read_only=True)
    member_count = serializers.IntegerField(read_only=True)
    teams = TeamSerializer(many=True, read_only=True)

    class Meta:
        model = Organization
        fields = [
            "id",
            "name",
            "slug",
            "created_at",
            "updated_at",
            "membership_level",
            "member_count",
            "is_member_join_email_enabled",
            "enforce_2fa",
            "teams",
        ]
        read_only_fields = ["id", "slug", "created_at", "updated_at"]


class UserSerializer(serializers.ModelSerializer):
    class Meta:
        model = User
        fields = ["id", "email", "first_name", "last_name"]


class MemberSerializer(serializers.ModelSerializer):
    user = UserSerializer(read_only=True)

    class Meta:
        model = Membership
        fields = ["id", "user", "level", "joined_at", "updated_at"]
