import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { createVisitor, must } from "../../specification/visitor.ts";
import { PROGRAM } from "../../support/dev_stack.ts";
import { until } from "../../support/process.ts";
import { type SmtpReceiver, startSmtp } from "../../support/smtp.ts";
import { type DnsServer, startDnsServer } from "../../support/surroundings/dns_server.ts";
import { type PgBouncer, startPgBouncer } from "../../support/surroundings/pgbouncer.ts";
import { startTcpProxy, type TcpProxy } from "../../support/surroundings/tcp_proxy.ts";
import { type FailoverWorld, type PreparedWorld, prepareFailoverWorld } from "../failover_world.ts";
import { createReceivers, type Receivers } from "./receivers.ts";

/**
 * A stack whose surroundings can be broken. One API and the worker use the database through PgBouncer.
 * Callers reach each API through a proxy. The worker asks a separate name server.
 */
export type World = Omit<FailoverWorld, "bases"> & {
  /** URLs of the doors. */
  bases: [string, string];
  pooler: PgBouncer;
  /** The proxies between PgBouncer and the database, and between the callers and each API. */
  behindPooler: TcpProxy;
  doors: TcpProxy[];
  names: DnsServer;
  receivers: Receivers;
  /** The mail server of the second API. */
  mail: SmtpReceiver;
  /** Signs a new person in at the second API, with a code from an email. */
  signIn(): Promise<void>;
  /** Returns the callback URL of a receiver on this machine, with a name that only `names` knows. */
  hook(url: string): string;
  untilReady(): Promise<void>;
  /** Returns the exit status of `deputize reconcile`. */
  reconcile(): Promise<number | null>;
  /** Runs a statement in the service's database, as a superuser. */
  sql(statement: string): Promise<void>;
};

const NAME_SERVER = fileURLToPath(new URL("../../support/surroundings/name_server.mjs", import.meta.url));
const RECEIVER = "receiver.example.test";
const READY_MS = 120_000;
const POOL_SIZE = "30";

/** Starts everything. `stop` also ends what a failed start has left. */
export async function openWorld(): Promise<World> {
  const stops: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const each of stops.splice(0).reverse()) await each();
  };
  try {
    return { ...(await startAll(stops)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startAll(stops: (() => Promise<void>)[]): Promise<Omit<World, "stop">> {
  const names = await startDnsServer();
  stops.push(names.stop);
  names.addresses.set(RECEIVER, ["127.0.0.1"]);
  const prepared = await prepareFailoverWorld();
  stops.push(prepared.stop);
  const behindPooler = await startTcpProxy(prepared.databases);
  stops.push(behindPooler.stop);
  const pooler = await startPgBouncer(behindPooler.url, {
    mode: "transaction",
    settings: { default_pool_size: POOL_SIZE },
  });
  stops.push(pooler.remove);
  const mail = await startSmtp();
  stops.push(mail.stop);
  await adapt(prepared, { pooler, names, mail });
  const world = await prepared.start();
  const doors: TcpProxy[] = [];
  for (const base of world.bases) {
    const door = await startTcpProxy(base);
    stops.push(door.stop);
    doors.push(door);
  }
  const [first = "", second = ""] = doors.map(({ url }) => new URL(url).origin);
  return {
    ...world,
    bases: [first, second],
    pooler,
    behindPooler,
    doors,
    names,
    receivers: createReceivers(),
    mail,
    signIn: createSignIn(second, mail),
    hook(url) {
      const callback = new URL(url);
      callback.hostname = RECEIVER;
      return callback.href;
    },
    async failOver(how) {
      const writable = await world.failOver(how);
      behindPooler.switchTo(Number(new URL(world.superuserUrl("postgres")).port));
      behindPooler.cut();
      behindPooler.mend();
      return writable;
    },
    untilReady: () =>
      until(
        "every process is ready",
        async () => Object.values(await world.readiness()).every((status) => status === 200),
        READY_MS,
      ),
    async reconcile() {
      const env = { DATABASE_URL: world.superuserUrl("deputize") };
      const stdio = ["ignore", "inherit", "inherit"] as const;
      const child = spawn(process.execPath, [PROGRAM, "reconcile"], { env, stdio: [...stdio] });
      const [status] = await once(child, "exit");
      return status;
    },
    async sql(statement) {
      const client = new Client({ connectionString: world.superuserUrl("deputize") });
      await client.connect();
      try {
        await client.query(statement);
      } finally {
        await client.end();
      }
    },
  };
}

type Surroundings = Pick<World, "pooler" | "names" | "mail">;

async function adapt({ programs }: PreparedWorld, { pooler, names, mail }: Surroundings): Promise<void> {
  const { api, second, worker } = programs;
  for (const program of [api, worker]) {
    const { DATABASE_URL_FILE: file = "", ...rest } = program.env;
    const direct = (await readFile(file, "utf8")).trim();
    program.env = { ...rest, DATABASE_URL: pooler.through(direct), DATABASE_DIRECT_URL: direct };
  }
  worker.args.unshift("--import", NAME_SERVER);
  worker.env.NAME_SERVER = names.address;
  second.env.SMTP_URL = mail.url;
}

function createSignIn(baseUrl: string, { mails }: SmtpReceiver): World["signIn"] {
  let people = 0;
  return async () => {
    people += 1;
    const email = `person-${people}@example.test`;
    const person = createVisitor({ baseUrl, mailbox: "", word: "service", limits: false });
    must(await person.call("POST", "/v1/auth/email/send-code", { email }));
    const mail = mails.findLast(({ to }) => to.includes(email));
    const code = /sign-in code is (\d{6})/.exec(mail?.raw ?? "")?.[1];
    must(await person.call("POST", "/v1/auth/email/verify-code", { email, code }));
  };
}
