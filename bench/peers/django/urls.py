from django.urls import include, path
from rest_framework.routers import DefaultRouter

from capture.views import batch
from directory.views import MemberViewSet, OrganizationViewSet

router = DefaultRouter()
router.register("organizations", OrganizationViewSet, basename="organization")
router.register("organizations/(?P<organization>[0-9a-f-]{36})/members", MemberViewSet, basename="member")

urlpatterns = [path("api/", include(router.urls)), path("batch/", batch)]
