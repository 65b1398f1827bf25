"""The client metadata document that is published with the project (docs/client-metadata.json)."""

from __future__ import annotations

import json
from pathlib import Path

from mcphub.auth.authorization_code import OFFLINE
from mcphub.auth.failures import FlowFailure, RefreshFailure, Unmet, XaaFailure
from mcphub.auth.registration import document, usable_document

DOCS = Path(__file__).parents[2] / "docs"


def test_the_document_is_this_clients() -> None:
    """It is what this client says of itself, at an address that can be a client id, without a secret; a browser comes
    back to the loopback by either name, at any port."""
    said = json.loads((DOCS / "client-metadata.json").read_bytes())
    assert usable_document(said["client_id"]) and ".example/" in said["client_id"]
    assert said["redirect_uris"] == ["http://127.0.0.1/callback", "http://localhost/callback"]
    assert said == document(said["client_id"], tuple(said["redirect_uris"]))
    assert said["token_endpoint_auth_method"] == "none" and "refresh_token" in said["grant_types"]
    assert not any("secret" in key for key in said) and OFFLINE not in said


def test_every_reason_is_explained() -> None:
    """docs/sign-in.md has all of the closed lists, and no other."""
    text = (DOCS / "sign-in.md").read_text("utf-8")
    told = text[text.index("## What is needed, and why") : text.index("## What it costs")]
    rows = [line.split("|")[1] for line in told.splitlines() if line.startswith("| `") and "`reason`" not in line]
    names = {name.strip(" `") for row in rows for name in row.split(",")}
    assert names == {str(one) for kind in (FlowFailure, RefreshFailure, XaaFailure, Unmet) for one in kind}
