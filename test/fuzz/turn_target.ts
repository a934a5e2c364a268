import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import type { Verification } from "../../src/protocol/verification/verify_bundle.ts";
import { decodeSessionToken, type SessionToken } from "../conformance/extensions/session_token.ts";
import {
  decodeStreamedTurn,
  type StreamedTurn,
  verifyStreamedTurn,
} from "../conformance/extensions/streamed_turn.ts";
import { listed } from "../support/answers.ts";
import { NOW } from "../support/chains.ts";
import type { Target } from "./loop.ts";
import { decode, demand, signatureTexts } from "./oracles.ts";
import { type Genuine, SESSION_SECRET } from "./seeds.ts";

/**
 * Returns a target for turns with the genuine token. An accepted turn must have a challenge that the agent
 * answered, with one of the agent's signatures. Only a genuine turn may consume its challenge. With an
 * invalid token, no turn is accepted.
 */
export function turnTarget({ sessionToken, streamedTurn }: Genuine): Target {
  const [token] = sessionToken.map(decodeSessionToken);
  if (token === undefined) throw new Error("there is no genuine token");
  const turns = streamedTurn.map(decodeStreamedTurn);
  const signed = new Set(turns.map(signedPart));
  const signatures = new Set(turns.flatMap(signatureTexts));
  return {
    name: "streamed_turn",
    seeds: streamedTurn,
    run: async (input) => {
      const decoded = decode(decodeStreamedTurn, input);
      if (typeof decoded === "string") return decoded;
      const turn = decoded.object;
      const answer = await verifyOnce(token, turn);
      const unsealed = await verifyOnce({ ...token, human_id: "someone" }, turn);
      demand(!unsealed.valid && !unsealed.genuine, "a turn holds under a token that nobody sealed");
      demand(
        isDeepStrictEqual(listed(await verifyOnce(token, turn)), listed(answer)),
        "two verifications differ",
      );
      if (!answer.genuine) return answer.violation?.code ?? "valid without being genuine";
      demand(
        signed.has(signedPart(turn)) && signatureTexts(turn).every((text) => signatures.has(text)),
        "a turn is genuine that nobody signed",
      );
      return `genuine ${answer.violation?.code}`;
    },
  };
}

async function verifyOnce(token: SessionToken, turn: StreamedTurn): Promise<Verification> {
  let spent = 0;
  const { session_context, stream_id, stream_seq = 1 } = turn;
  const answer = await verifyStreamedTurn(token, turn, {
    secret: SESSION_SECRET,
    now: NOW,
    required_scope: "files:read",
    session_context,
    stream: stream_id === undefined ? undefined : { stream_id, last_seen_seq: stream_seq - 1 },
    challengeStore: {
      isKnown: () => true,
      spend: () => {
        spent += 1;
        return true;
      },
    },
  });
  demand(
    spent === (answer.genuine ? 1 : 0),
    "a challenge is spent although the turn is not genuine, or the reverse",
  );
  demand(answer.valid === (answer.violation === undefined), "an answer contradicts itself");
  return answer;
}

function signedPart(turn: StreamedTurn): string {
  return hash("sha256", challengeSignBytes(turn));
}
