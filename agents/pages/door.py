"""The door: signing in and out, here and in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import views as auth
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from agents.pages.principal import address_of, session_of
from checkpoints import sign_in
from checkpoints.sign_in import TooManyFailures


class SignInForm(AuthenticationForm):
    """Django's, which is not asked any more once too many attempts failed."""

    locked: TooManyFailures | None = None

    def clean(self) -> dict[str, Any]:
        name, password = (self.cleaned_data.get(of) for of in ("username", "password"))
        if not name or not password:
            return super().clean()
        assert self.request is not None  # the view gives it
        address = address_of(self.request)
        try:
            sign_in.attempt(name, address)
        except TooManyFailures as locked:
            self.locked = locked
            if locked.first:  # and not once more for each that follows
                sign_in.record_refused(name, address, why="too many failures")
            raise ValidationError(str(locked), code="locked") from None
        try:
            cleaned = super().clean()
        except ValidationError:
            sign_in.record_refused(name, address, why="no match")
            raise
        sign_in.succeeded(name, address)
        return cleaned


class SignIn(auth.LoginView):
    template_name = "login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        _record("login", self.request)
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        if isinstance(form, SignInForm) and form.locked is not None:
            response.status_code = 429
            response["Retry-After"] = str(int(form.locked.wait.total_seconds()) + 1)
        return response


class SignOut(auth.LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated:
            _record("logout", request)
            sign_in.end_grants(request.user.pk, session_of(request))
        return super().post(request, *args, **kwargs)


@require_safe
def to_the_admin(request: HttpRequest) -> HttpResponse:
    """The admin has no door of its own: one is limited and recorded."""
    if request.user.is_authenticated:
        raise PermissionDenied("The admin is for staff; a superuser can let you in.")
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


def _record(action: str, request: HttpRequest) -> None:
    user_id = request.user.pk
    assert user_id is not None  # whoever comes here has signed in
    sign_in.record(
        action, user_id, session=session_of(request), address=address_of(request)
    )


urlpatterns = [
    path("login", SignIn.as_view(), name="login"),
    path("logout", SignOut.as_view(), name="logout"),
    path("admin/login/", to_the_admin, name="admin_login"),
    path("admin/logout/", SignOut.as_view(), name="admin_logout"),
]
