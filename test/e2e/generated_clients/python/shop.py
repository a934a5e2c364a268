"""Does the main job with the client that openapi-python-client creates: shop.py <base URL> <email>.

Prints `code`, reads the mailed code from standard input, and prints what it saw as one line of JSON.
"""

import json
import sys
from typing import TypeVar

from client import AuthenticatedClient, Client
from client.api.auth import send_code, set_account_type, set_profile, verify_code
from client.api.challenge import create_challenge
from client.api.connections import create_agent, present_proof
from client.api.delegations import approve_delegation_request, request_delegation, revoke_delegation
from client.api.platforms import register_personal_platform
from client.api.verify import verify_proof
from client.models import (
    Agent,
    ApproveDelegationRequestAnswer,
    ApproveDelegationRequestBody,
    Challenge,
    CreateAgentBody,
    CreateAgentBodyAgentType,
    Decision,
    EmailAddress,
    Error,
    PersonalName,
    PlatformRegistration,
    PresentProofBody,
    Proof,
    RegisteredPlatform,
    RequestDelegationAnswer,
    RequestDelegationBody,
    RevokeDelegationAnswer,
    RevokeDelegationBody,
    SendCodeAnswer,
    SetAccountTypeAnswer,
    SetAccountTypeBodyIndividual,
    SetProfileAnswer,
    VerifyCodeAnswer,
    VerifyCodeBody,
    VerifyProofBody,
)

SCOPE = "payments:send"
T = TypeVar("T")


def ok(kind: type[T], answer: object) -> T:
    """Returns the answer of a call. Ends the program if the answer is an error."""
    if isinstance(answer, kind):
        return answer
    sys.exit(f"expected {kind.__name__}: {answer}")


def main(base: str, email: str) -> None:
    browser = Client(base_url=base)
    ok(SendCodeAnswer, send_code.sync(client=browser, body=EmailAddress(email=email)))
    print("code", flush=True)
    code = VerifyCodeBody(email=email, code=input())
    ok(VerifyCodeAnswer, verify_code.sync(client=browser, body=code))
    cookies = dict(browser.get_httpx_client().cookies)
    person = AuthenticatedClient(
        base_url=base,
        token=cookies["service_csrf"],
        prefix="",
        auth_header_name="X-Service-CSRF",
        cookies=cookies,
    )
    profile = PersonalName(first_name="Ada", last_name="Lovelace")
    ok(SetProfileAnswer, set_profile.sync(client=person, body=profile))
    individual = SetAccountTypeBodyIndividual(account_type="individual")
    ok(SetAccountTypeAnswer, set_account_type.sync(client=person, body=individual))
    shop = PlatformRegistration(name="Shop", surface_type="agentic_api", default_allowed_scopes=[SCOPE])
    platform = ok(RegisteredPlatform, register_personal_platform.sync(client=person, body=shop))

    application = AuthenticatedClient(
        base_url=base, token=platform.api_key, prefix="", auth_header_name="X-Service-API-Key"
    )
    connection_id = platform.connection_id
    bot = CreateAgentBody(name="bot", agent_type=CreateAgentBodyAgentType.API_AGENT)
    agent = ok(Agent, create_agent.sync(connection_id, client=application, body=bot))
    wanted = RequestDelegationBody(connection_id=connection_id, requested_scope=[SCOPE])
    request = ok(RequestDelegationAnswer, request_delegation.sync(client=person, body=wanted))
    approval = ApproveDelegationRequestBody(approved_scope=[SCOPE])
    certificate = ok(
        ApproveDelegationRequestAnswer,
        approve_delegation_request.sync(request.request_id, client=person, body=approval),
    )

    def present() -> VerifyProofBody:
        challenge = ok(Challenge, create_challenge.sync(client=application))
        body = PresentProofBody(challenge=challenge.challenge)
        proof = ok(Proof, present_proof.sync(connection_id, agent.agent_id, client=application, body=body))
        return VerifyProofBody(required_scope=SCOPE, proof_ref=proof.proof_ref)

    first, second = present(), present()
    allowed = ok(Decision, verify_proof.sync(client=application, body=first))
    again = ok(Error, verify_proof.sync(client=application, body=first)).error
    revocation = RevokeDelegationBody()
    ok(RevokeDelegationAnswer, revoke_delegation.sync(certificate.cert_id, client=person, body=revocation))
    denied = ok(Decision, verify_proof.sync(client=application, body=second))

    seen = {
        "allowed": [allowed.decision, allowed.decision_reason],
        "denied": [denied.decision, denied.decision_reason],
        "again": [again.code, again.status],
        "added": allowed.additional_properties.get("added_later"),
    }
    print(json.dumps(seen))


main(sys.argv[1], sys.argv[2])
