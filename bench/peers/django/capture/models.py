import uuid

from django.db import models


class Token(models.Model):
    token = models.CharField(max_length=64, primary_key=True)


class Event(models.Model):
    """One row for each event; what is sent again finds its uuid taken."""

    uuid = models.UUIDField(primary_key=True, default=uuid.uuid4)
    token = models.ForeignKey(Token, on_delete=models.CASCADE)
    event = models.CharField(max_length=400)
    distinct_id = models.CharField(max_length=400)
    properties = models.JSONField()
    timestamp = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
