"""Answers questions about protocol documents with the published Python SDK: JSON list on stdin, JSON list on stdout."""
import hashlib
import json
import sys
import types
import warnings
from base64 import b64decode

import ratify_protocol.crypto as crypto
import ratify_protocol.verify as verify
import ratify_protocol.wire as wire
from ratify_protocol.types import (
    HybridPublicKey, HybridSignature, KeyRotationStatement, ReceiptParty, ReceiptPartySignature, RevocationList,
    RevocationPush, StreamContext, TransactionReceipt, VerifierContext, VerifyOptions, WitnessEntry,
)

warnings.simplefilter("ignore", DeprecationWarning)
CONTEXT = {
    "latitude": "current_lat", "longitude": "current_lon", "altitude_m": "current_alt_m", "speed_mps": "current_speed_mps",
    "amount": "requested_amount", "currency": "requested_currency", "resource_id": "requested_resource_id",
    "path": "requested_path",
}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def key(value):
    return HybridPublicKey(b64decode(value["ed25519"]), b64decode(value["ml_dsa_65"]))


def signature(value):
    return HybridSignature(b64decode(value["ed25519"]), b64decode(value["ml_dsa_65"]))


def options(given):
    context = given.get("context", {})
    used = VerifierContext(**{CONTEXT[name]: value for name, value in context.items() if name in CONTEXT})
    used.has_resource = "resource_id" in context
    if "invocations" in context:
        used.invocations_in_window = lambda cert_id, window_s: context["invocations"]
    revoked = given.get("revoked")
    stream = given.get("stream")
    return VerifyOptions(
        now=given["now"],
        required_scope=given.get("required_scope", ""),
        session_context=b64decode(given.get("session_context", "")),
        stream=stream and StreamContext(b64decode(stream["stream_id"]), stream["last_seen_seq"]),
        context=used,
        revocation=types.SimpleNamespace(is_revoked=lambda cert_id: (cert_id in revoked, None)) if revoked else None,
    )


def bundle(question):
    decoded = wire.decode_proof_bundle(question["document"])
    result = verify.verify_bundle(decoded, options(question["options"]))
    return {
        "hash": crypto.bundle_hash(decoded).hex(),
        "signed": [digest(crypto.delegation_sign_bytes(each)) for each in decoded.delegations],
        "challenge": crypto.challenge_sign_bytes(
            decoded.challenge, decoded.challenge_at, decoded.session_context, decoded.stream_id, decoded.stream_seq).hex(),
        "valid": result.valid,
        "identity_status": result.identity_status,
        "human_id": result.human_id,
        "agent_id": result.agent_id,
        "granted_scope": result.granted_scope,
        "reason": result.error_reason,
    }


def verification_receipt(question):
    receipt = wire.decode_verification_receipt(question["document"])
    return {
        "signed": digest(crypto.verification_receipt_sign_bytes(receipt)),
        "valid": crypto.verify_verification_receipt(receipt) is None,
        "link": crypto.receipt_hash(receipt).hex(),
    }


def session_token(question):
    token = wire.decode_session_token(question["document"])
    reason = crypto.verify_session_token_e(token, b64decode(question["secret"]), question["now"])
    return {"signed": digest(crypto.session_token_sign_bytes(token)), "reason": reason or ""}


def key_rotation(question):
    fields = json.loads(question["document"])
    for name in ("old_pub_key", "new_pub_key"):
        fields[name] = key(fields[name])
    for name in ("signature_old", "signature_new"):
        fields[name] = signature(fields[name])
    statement = KeyRotationStatement(**fields)
    reason = crypto.verify_key_rotation_statement_e(statement)
    return {"signed": digest(crypto.key_rotation_sign_bytes(statement)), "reason": reason or ""}


def transaction_receipt(question):
    fields = json.loads(question["document"])
    fields["terms_canonical_json"] = b64decode(fields["terms_canonical_json"])
    fields["parties"] = [
        ReceiptParty(**{**party, "agent_pub_key": key(party["agent_pub_key"]),
                        "proof_bundle": wire.decode_proof_bundle(json.dumps(party["proof_bundle"]))})
        for party in fields["parties"]
    ]
    fields["party_signatures"] = [
        ReceiptPartySignature(each["party_id"], signature(each["signature"])) for each in fields["party_signatures"]
    ]
    receipt = TransactionReceipt(**fields)
    result = verify.verify_transaction_receipt(receipt, question["now"])
    return {"signed": digest(crypto.transaction_receipt_sign_bytes(receipt)), "reason": result.error_reason}


STATEMENTS = {
    "revocation_list": (RevocationList, crypto.revocation_sign_bytes, crypto.verify_revocation_list),
    "revocation_push": (RevocationPush, crypto.revocation_push_sign_bytes, crypto.verify_revocation_push),
    "witness_entry": (WitnessEntry, crypto.witness_entry_sign_bytes, crypto.verify_witness_entry),
}


def statement(question):
    make, sign_bytes, holds = STATEMENTS[question["kind"]]
    fields = json.loads(question["document"])
    fields["signature"] = signature(fields["signature"])
    for name in ("prev_hash", "entry_data"):
        if name in fields:
            fields[name] = b64decode(fields[name])
    made = make(**fields)
    return {"signed": digest(sign_bytes(made)), "valid": holds(made, key(question["key"]))}


KINDS = {
    "bundle": bundle, "verification_receipt": verification_receipt, "session_token": session_token,
    "key_rotation": key_rotation, "transaction_receipt": transaction_receipt, **dict.fromkeys(STATEMENTS, statement),
}


def answer(question):
    try:
        return KINDS[question["kind"]](question)
    except (ValueError, OverflowError) as error:
        return {"refused": str(error)}


json.dump([answer(question) for question in json.load(sys.stdin)], sys.stdout)
