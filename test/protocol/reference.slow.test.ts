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
 * Refused by both, and by this implementation for an earlier reason: a constraint that can never hold, a MAC
 * that is wrong.
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

/** Questions whose two answers are not alike in what is looked at. */
function differing(of: Compared[], look: (answer: Answer) => unknown): unknown[] {
  return of
    .filter(({ own, theirs }) => JSON.stringify(look(own)) !== JSON.stringify(look(theirs)))
    .map(({ question, own, theirs }) => ({ question: question.name, own: look(own), theirs: look(theirs) }));
}

const isAccepted = (answer: Answer) => !("refused" in answer) && (answer.valid ?? answer.reason === "");
const isRead = ({ own, theirs }: Compared) => !("refused" in own) && !("refused" in theirs);
const isAlike = ({ question }: Compared) => !OTHER_REASON.some((pattern) => pattern.test(question.name));

describe.skipIf(!isThere)("beside the published Python SDK", () => {
  test("accepts the same documents and refuses the same", () => {
    expect(differing(compared, isAccepted)).toEqual([]);
    const accepted = compared.filter(({ own }) => isAccepted(own)).length;
    expect(accepted).toBeGreaterThan(60);
    expect(compared.length - accepted).toBeGreaterThan(600);
  });

  test("makes the same signed bytes and hashes of what both read", () => {
    const bytes = ({ hash, signed, challenge, link }: Answer) => ({ hash, signed, challenge, link });
    const read = compared.filter(isRead);
    expect(differing(read, bytes)).toEqual([]);
    expect(read.filter(({ own }) => "hash" in own).length).toBeGreaterThan(150);
  });

  test("gives the same answers and reasons: the code, or the sentence where there is none", () => {
    const answer = ({ identity_status, human_id, agent_id, granted_scope, reason }: Answer) => ({
      identity_status,
      human_id,
      agent_id,
      granted_scope,
      reason: reasonKey(String(reason)),
    });
    expect(differing(compared.filter(isRead).filter(isAlike), answer)).toEqual([]);
  });

  test("refuses too where it gives another reason, and nowhere else than is written here", () => {
    const others = compared.filter((each) => !isAlike(each));
    expect(others).toHaveLength(7);
    for (const { question, own, theirs } of others) {
      expect([isAccepted(own), isAccepted(theirs)], question.name).toEqual([false, false]);
    }
  });
});
