"""An API that accepts orders with a person's authority: python orders_django.py runserver"""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from deputize.frameworks.django import guard_django
from deputize.guard import Authority, Guard, Route

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])
guard = Guard(os.environ["BASE_URL"], os.environ["VERIFY_KEY"])


@csrf_exempt
@require_POST
@guard_django(guard, Route("data:read", operation=True))
def place(_: HttpRequest, who: Authority) -> JsonResponse:
    return JsonResponse({"item": who.payload["item"], "agent": who.agent_id, "person": who.human_id})


urlpatterns = [path("orders", place)]
if __name__ == "__main__":
    execute_from_command_line(sys.argv)
