/**
 * What can be wrong with an account's ledger. Closed.
 *
 * - `balance`: the balance is not what was credited less what was charged; amounts in micro-USD
 * - `books`: postings between other books than their kind moves amounts between
 * - `charge_without_decision`: charges at a moment that has fewer charged decisions in the history
 * - `decision_without_charge`: charged decisions at a moment that has fewer charges
 * - `grant_without_record`: postings of grants that no recorded grant is of, or one of another amount
 */
export const differenceKinds = [
  "balance",
  "books",
  "charge_without_decision",
  "decision_without_charge",
  "grant_without_record",
] as const;

/**
 * One difference of one account: what the postings, or the rules, say and what is there. But for `balance`,
 * counts.
 */
export type LedgerDifference = {
  account_id: string;
  kind: (typeof differenceKinds)[number];
  expected: number;
  found: number;
};

/** What was counted of one account, or of a part of its time. Amounts in micro-USD. */
export type LedgerCount = {
  account_id: string;
  postings: number;
  /** Postings between other books than their kind's. */
  strays: number;
  /** The sum of the postings in the book `credit`. */
  credit: number;
  balance: number;
  lone_charges: number;
  lone_decisions: number;
  lone_grants: number;
};

/** The count of an account that has neither postings, decisions nor a balance. */
export function nothingOf(account_id: string): LedgerCount {
  const lone = { lone_charges: 0, lone_decisions: 0, lone_grants: 0 };
  return { account_id, postings: 0, strays: 0, credit: 0, balance: 0, ...lone };
}

/** The differences that an account's count shows. */
export function differencesOf(count: LedgerCount): LedgerDifference[] {
  const { account_id } = count;
  const compared: [LedgerDifference["kind"], number, number][] = [
    ["balance", count.credit, count.balance],
    ["books", 0, count.strays],
    ["charge_without_decision", 0, count.lone_charges],
    ["decision_without_charge", 0, count.lone_decisions],
    ["grant_without_record", 0, count.lone_grants],
  ];
  return compared
    .filter(([, expected, found]) => expected !== found)
    .map(([kind, expected, found]) => ({ account_id, kind, expected, found }));
}
