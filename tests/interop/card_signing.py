"""Signs and verifies agent cards with another library. Reads a JSON document `{"jwks", "verify": [cards], "sign":
[cards], "key": PEM, "header": {}}` and writes `{"verified": [true or why not], "signed": [cards]}`."""

import json
import sys

from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer, create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt import PyJWK


def main() -> None:
    task = json.load(sys.stdin)
    keys = {key["kid"]: PyJWK(key) for key in task["jwks"]["keys"]}
    verify = create_signature_verifier(lambda kid, jku: keys[kid], ["ES256", "EdDSA"])
    verified = []
    for card in task["verify"]:
        try:
            verify(ParseDict(card, AgentCard()))
            verified.append(True)
        except Exception as error:  # the test prints the reason
            verified.append(repr(error))
    sign = create_agent_card_signer(task["key"], task["header"])
    signed = [MessageToDict(sign(ParseDict(card, AgentCard()))) for card in task["sign"]]
    json.dump({"verified": verified, "signed": signed}, sys.stdout)


main()
