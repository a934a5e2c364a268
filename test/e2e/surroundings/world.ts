import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "pg";
import { loadConfig } from "../../../keyvault/config.ts";
import { kafkaJars } from "../../../src/dev/kafka/jars.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import { SILENT } from "../../events/kafka/kafka_world.ts";
import { createVisitor, must } from "../../specification/visitor.ts";
import { PROGRAM } from "../../support/dev_stack.ts";
import { type KafkaNode, startKafka } from "../../support/kafka.ts";
import { type SmtpReceiver, startSmtp } from "../../support/smtp.ts";
import { type CountingHsm, insertCountingHsm } from "../../support/surroundings/counting_hsm.ts";
import { type DnsServer, startDnsServer } from "../../support/surroundings/dns_server.ts";
import { type PgBouncer, startPgBouncer } from "../../support/surroundings/pgbouncer.ts";
import { mayMount, mountSmallDisk, type SmallDisk } from "../../support/surroundings/small_disk.ts";
import { startTcpProxy, type TcpProxy } from "../../support/surroundings/tcp_proxy.ts";
import {
  type FailoverWorld,
  type PreparedWorld,
  prepareFailoverWorld,
  usePooler,
} from "../failover_world.ts";
import { createProcess, type Process, untilReady } from "../processes.ts";
import { createReceivers, type Receivers } from "./receivers.ts";

/**
 * A stack whose surroundings can be broken. One API and the worker use the database through PgBouncer.
 * Callers reach each API through a proxy. The worker asks a separate name server.
 */
export type World = Omit<FailoverWorld, "bases" | "processes" | "readiness"> & {
  processes: FailoverWorld["processes"] & { operator: Process };
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
  kafka: KafkaNode;
  /** The folders of the operator. */
  operatorFolders: { manifests: string; status: string; secrets: string };
  /** The disk of the database and its standby, if this process may mount one. */
  disk: SmallDisk | undefined;
  hsm: CountingHsm;
  /** Signs a new person in at the second API, with a code from an email. */
  signIn(): Promise<void>;
  /** Returns the callback URL of a receiver on this machine, with a name that only `names` knows. */
  hook(url: string): string;
  untilReady(): Promise<void>;
  /** Returns the exit status of `deputize reconcile`. */
  reconcile(): Promise<number | null>;
  /** Runs a statement in the service's database, as a superuser. Returns the rows. */
  sql(statement: string): Promise<Record<string, unknown>[]>;
};

const NAME_SERVER = fileURLToPath(new URL("../../support/surroundings/name_server.mjs", import.meta.url));
const RECEIVER = "receiver.example.test";
const READY_MS = 120_000;
const POOL_SIZE = "30";
const DISK_SIZE = "4g";

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
  const disk = mayMount ? mountSmallDisk(DISK_SIZE) : undefined;
  if (disk !== undefined) stops.push(async () => disk.remove());
  const prepared = await prepareFailoverWorld(async (folder) => {
    if (disk === undefined) return folder;
    await promisify(execFile)("cp", ["-a", `${folder}/.`, disk.path]);
    return disk.path;
  });
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
  const kafka = await startBroker(prepared);
  stops.push(kafka.stop);
  const hsm = insertHsm(prepared);
  await adapt(prepared, { pooler, names, mail });
  const world = await prepared.start();
  const operator = createProcess(prepared.folder, prepared.programs.operator);
  await operator.start();
  stops.push(operator.kill);
  const { env: folders } = prepared.programs.operator;
  const { MANIFESTS_DIR: manifests = "", STATUS_DIR: status = "", SECRETS_DIR: secrets = "" } = folders;
  const processes = { ...world.processes, operator };
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
    processes,
    operatorFolders: { manifests, status, secrets },
    pooler,
    behindPooler,
    doors,
    names,
    receivers: createReceivers(),
    mail,
    kafka,
    disk,
    hsm,
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
    async untilReady() {
      for (const one of Object.values(processes)) await untilReady(one, READY_MS);
    },
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
        return (await client.query(statement)).rows;
      } finally {
        await client.end();
      }
    },
  };
}

/** Starts a broker with the topics. The worker then sends all events through it. */
async function startBroker({ folder, programs }: PreparedWorld): Promise<KafkaNode> {
  const { jars, missing } = await kafkaJars();
  if (jars === undefined) throw new Error(`Missing: ${missing}`);
  const kafka = await startKafka({ jars, path: process.env.PATH, folder: join(folder, "kafka") });
  const settings = { brokers: kafka.brokers, prefix: "soak.", partitions: 4, replication: 1 };
  await ensureTopics(createKafkaClient(settings, SILENT), settings);
  const [address = ""] = kafka.brokers;
  const events = { EVENTS: "kafka", KAFKA_BROKERS: address, KAFKA_PREFIX: settings.prefix };
  Object.assign(programs.worker.env, events);
  return kafka.nodes[0] as KafkaNode;
}

function insertHsm({ folder, programs }: PreparedWorld): CountingHsm {
  const { env } = programs.keyvault;
  return insertCountingHsm({ dir: folder, environment: env, config: loadConfig(env) });
}

type Surroundings = Pick<World, "pooler" | "names" | "mail">;

async function adapt({ programs }: PreparedWorld, { pooler, names, mail }: Surroundings): Promise<void> {
  const { api, second, worker } = programs;
  for (const program of [api, worker]) await usePooler(program, pooler);
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
    const mail = mails.findLast(({ to, raw }) => to.includes(email) && raw.includes("sign-in code is"));
    const code = /sign-in code is (\d{6})/.exec(mail?.raw ?? "")?.[1];
    must(await person.call("POST", "/v1/auth/email/verify-code", { email, code }));
  };
}
