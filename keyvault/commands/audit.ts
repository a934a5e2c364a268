import { Command, InvalidArgumentError } from "commander";
import type { DamagedRows } from "../audit/compare.ts";
import { type NotedHeads, readHeads } from "../audit/head_file.ts";
import type { ChainVerdict } from "../audit/verify_chain.ts";
import type { Head } from "../audit/writer_connection.ts";
import { ConfigError } from "../config.ts";
import { exitStatus, UnavailableError, UsageError } from "../errors.ts";
import { auditExportCommand, auditTailCommand } from "./audit_tail.ts";
import type { AuditVerdict } from "./check_chain.ts";
import { describeError } from "./describe_error.ts";
import { columnsOf, foldLines, print } from "./display.ts";

const HEAD = /^(\d{1,15}):([0-9a-f]{64})$/;

const ABOUT = `Recompute every record's code with the token's audit key, from the first record to the last.

Names the first record that was altered, removed or inserted. If the chain is intact, the command also compares the records with each other (a key used after it was disabled, two statements for one place) and the rows of keys and tenants with the records, and names each contradiction. To detect that the newest records were cut off, the command compares the chain with the head that the token has noted and with heads noted elsewhere, for example by "keyvault status". Pass one head as --head, or a file of heads as --heads. If a line of the file was cut off while it was written, the command reports and skips that line. Any other line that is not a head is an error. The vault may run meanwhile. Without a PIN file, the command asks for the PIN like "keyvault unseal".

Exit status: 0 if everything is intact, 1 if not, 3 if the command could not check the audit.`;

const ABOUT_ACCEPT = `A vault is sealed (chain_broken) if its chain ends before the head that its token has noted, because records were cut off. If you know the reason, for example a database that lost its last second in a failover, this command records the current end of the chain in the token.

The changes in the lost records are undone: a key that one of them disabled signs again. Give the end that you expect. If the chain has another end, the command shows that end. Run the command while the vault is stopped or sealed. The audit records that you accepted the end.`;

/** `keyvault audit …` */
export function auditCommand(): Command {
  const verify = new Command("verify")
    .summary("check the whole audit chain")
    .description(ABOUT)
    .option("--head <seq:code>", "a head noted before, which must still be in the chain", parseHead)
    .option(
      "--heads <file>",
      "a file of heads: KEYVAULT_AUDIT_HEADS_FILE, output of `keyvault audit export`, or the vault's log",
    )
    .option("--json", "print JSON")
    .action(async ({ head, heads, json }: { head?: Head; heads?: string; json?: true }) => {
      const noted = heads === undefined ? { heads: [], unfinished: [] } : await readNoted(heads);
      const { unfinished } = noted;
      const expected = head === undefined ? noted.heads : [...noted.heads, head];
      const { checkChain } = await import("./check_chain.ts");
      const verdict = await checkChain(expected).catch((error) => {
        throw asUnavailable(error);
      });
      const wrong = describeWrong(verdict);
      const text =
        describe(verdict.chain, expected.length) +
        wrong +
        describeWaiting(verdict.damaged) +
        unfinished.map((line) => describeUnfinished(heads, line)).join("");
      print({ json }, { ...printable(verdict), ...(unfinished.length > 0 && { unfinished }) }, text);
      if (!verdict.chain.intact || wrong !== "") process.exitCode = exitStatus.failed;
    });
  const accept = new Command("accept")
    .summary("record the chain's current end in the token, after a known loss of records")
    .description(ABOUT_ACCEPT)
    .argument("<seq:code>", "the chain's end", parseHead)
    .action(async (end: Head) => {
      const { acceptChain } = await import("./check_chain.ts");
      const { seq, mac } = await acceptChain(end);
      process.stdout.write(`Accepted.\n${describeHead({ seq, mac })}`);
    });
  return new Command("audit")
    .summary("look at the audit chain and check it")
    .addCommand(auditTailCommand())
    .addCommand(verify)
    .addCommand(accept)
    .addCommand(auditExportCommand());
}

async function readNoted(file: string): Promise<NotedHeads> {
  const noted = await readHeads(file).catch((error) => {
    const message = describeError(error);
    throw message === undefined ? error : new UsageError(message, { cause: error });
  });
  if (noted.heads.length === 0) throw new UsageError(`${file} holds no head: the chain was not checked`);
  return noted;
}

/** A failed check must not have the exit status of a broken chain. */
function asUnavailable(error: unknown): unknown {
  const message = error instanceof ConfigError ? undefined : describeError(error);
  return message === undefined ? error : new UnavailableError(message, { cause: error });
}

function parseHead(text: string): Head {
  const [, seq, mac] = HEAD.exec(text) ?? [];
  if (seq === undefined || mac === undefined) {
    throw new InvalidArgumentError("Give the head as 42:0f3a… (a number, a colon, 64 hexadecimal digits).");
  }
  return { seq: Number(seq), mac: Buffer.from(mac, "hex") };
}

function printable({ chain, contradictions, damaged }: AuditVerdict): object {
  return chain.intact
    ? { intact: true, records: chain.head.seq, head: chain.head.mac.toString("hex"), contradictions, damaged }
    : chain;
}

function describeWrong({ contradictions, damaged }: AuditVerdict): string {
  return [
    ...contradictions.map(({ seq, what }) => `Record ${seq}: ${what}.\n`),
    ...damaged.keys.map((id) => `Key ${id} is gone or not in the state that the audit records.\n`),
    ...damaged.tenants.map((name) => `Tenant ${name} is gone or not in the state that the audit records.\n`),
  ].join("");
}

function describe(verdict: ChainVerdict, noted: number): string {
  if (verdict.intact) {
    const beside = noted === 0 ? "" : `, and the heads noted before are among them (${noted})`;
    return `All ${verdict.head.seq} records are intact${beside}.\n${describeHead(verdict.head)}`;
  }
  const what = { altered: "was altered", missing: "is missing", cut: "and those after it were cut off" }[
    verdict.reason
  ];
  return `The chain is broken: record ${verdict.seq} ${what}.\n`;
}

function describeWaiting({ waiting }: DamagedRows): string {
  return waiting === 0
    ? ""
    : `${waiting} rows that an earlier version stored without codes wait for "keyvault adopt".\n`;
}

function describeHead({ seq, mac }: Head): string {
  return foldLines([["audit head", `${seq}:${mac.toString("hex")}`]], 15, columnsOf());
}

function describeUnfinished(file: string | undefined, line: number): string {
  return `${file}: line ${line} is incomplete, for example after a power cut, and was skipped.\n`;
}
