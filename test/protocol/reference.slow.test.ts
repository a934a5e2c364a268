import { beforeAll, describe, expect, test } from "vitest";
import { reasonKey } from "../conformance/vector.ts";
import { ownAnswer, type Question } from "../support/reference_answers.ts";
import { allQuestions } from "../support/reference_questions.ts";
import { findReference } from "../support/reference_sdk.ts";

const reference = await findReference();
const isThere = typeof reference === "function";
if (!isThere) {
  console.warn(`NO PUBLISHED SDK (${reference.missing}): this implementation is not compared with it`);
}

/**
 * Cases that both implementations refuse for different reasons. This implementation detects the fault in an
 * earlier rule: a constraint that can never hold, or a wrong MAC.
 */
const OTHER_REASON = [
  /^\{"type":"geo_polygon","points":\[\[0,(1|-170)\],.* without context$/,
  /^\{"type":"max_rate","count":0,.* without context$/,
  /^\{"type":"resource_path","resource_id":"repo","path_prefix":"src"\} without context$/,
  /^token 1 at /,
];

type Answer = Record<string, unknown>;
type Compared = { question: Question; own: Answer; theirs: Answer };

let compared: Compared[];

beforeAll(async () => {
  if (!isThere) return;
  const questions = await allQuestions();
  const theirs = await reference(questions);
  compared = [];
  for (const [index, question] of questions.entries()) {
    compared.push({ question, own: await ownAnswer(question), theirs: theirs[index] ?? {} });
  }
});

/** Returns the questions whose two answers differ in the part that `look` selects. */
function differing(of: Compared[], look: (answer: Answer) => unknown): unknown[] {
  return of
    .filter(({ own, theirs }) => JSON.stringify(look(own)) !== JSON.stringify(look(theirs)))
    .map(({ question, own, theirs }) => ({ question: question.name, own: look(own), theirs: look(theirs) }));
}

const isAccepted = (answer: Answer) => !("refused" in answer) && (answer.valid ?? answer.reason === "");
const isRead = ({ own, theirs }: Compared) => !("refused" in own) && !("refused" in theirs);
const isAlike = ({ question }: Compared) => !OTHER_REASON.some((pattern) => pattern.test(question.name));

describe.skipIf(!isThere)("compared with the published Python SDK", () => {
  test("this implementation accepts and refuses the same documents", () => {
    expect(differing(compared, isAccepted)).toEqual([]);
    const accepted = compared.filter(({ own }) => isAccepted(own)).length;
    expect(accepted).toBeGreaterThan(60);
    expect(compared.length - accepted).toBeGreaterThan(600);
  });

  test("this implementation computes the same signed bytes and hashes", () => {
    const bytes = ({ hash, signed, challenge, link }: Answer) => ({ hash, signed, challenge, link });
    const read = compared.filter(isRead);
    expect(differing(read, bytes)).toEqual([]);
    expect(read.filter(({ own }) => "hash" in own).length).toBeGreaterThan(150);
  });

  test("this implementation gives the same answers with the same code, or the same sentence if there is no code", () => {
    const answer = ({ identity_status, human_id, agent_id, granted_scope, reason }: Answer) => ({
      identity_status,
      human_id,
      agent_id,
      granted_scope,
      reason: reasonKey(String(reason)),
    });
    expect(differing(compared.filter(isRead).filter(isAlike), answer)).toEqual([]);
  });

  test("the SDK also refuses every case for which this test lists a different reason", () => {
    const others = compared.filter((each) => !isAlike(each));
    expect(others).toHaveLength(7);
    for (const { question, own, theirs } of others) {
      expect([isAccepted(own), isAccepted(theirs)], question.name).toEqual([false, false]);
    }
  });
});
