import { createSocket } from "node:dgram";
import DNS from "dns2";

export type DnsServer = {
  /** The server's address in the format of the service's setting. */
  address: string;
  /** TXT records by name, each as a list of chunks. */
  records: Map<string, string[][]>;
  /** Addresses by name, of both families. */
  addresses: Map<string, string[]>;
  /** Types of queries, such as `AAAA`, that the server never answers. */
  silent: Set<string>;
  asked: { name: string; type: number }[];
  /** A number is the DNS error code of every answer. With `"nothing"`, the server sends no answer. */
  fault: number | "nothing" | undefined;
  stop(): Promise<void>;
};

const { Packet } = DNS;

export async function startDnsServer(): Promise<DnsServer> {
  const socket = createSocket("udp4");
  const state: DnsServer = {
    address: "",
    records: new Map(),
    addresses: new Map(),
    silent: new Set(),
    asked: [],
    fault: undefined,
    stop: () => new Promise((resolve) => void socket.close(() => resolve())),
  };
  socket.on("message", (message, { port, address }) => {
    const answer = answerOf(Packet.parse(message), state);
    if (answer !== undefined) socket.send(answer, port, address);
  });
  await new Promise<void>((resolve) => void socket.bind(0, "127.0.0.1", resolve));
  state.address = `127.0.0.1:${socket.address().port}`;
  return state;
}

function answerOf(request: DNS.Packet, server: DnsServer): Buffer | undefined {
  const { records, addresses, asked, fault } = server;
  const [question] = request.questions;
  if (question === undefined) return undefined;
  const { name, type } = question;
  asked.push({ name, type });
  if (isSilent(type, server)) return undefined;
  const answer = Packet.createResponseFromRequest(request);
  const key = name.toLowerCase();
  if (typeof fault === "number") {
    answer.header.rcode = fault;
    return answer.toBuffer();
  }
  if (!records.has(key) && !addresses.has(key)) answer.header.rcode = NO_SUCH_NAME;
  const texts = type === Packet.TYPE.TXT ? (records.get(key) ?? []) : [];
  const found = (addresses.get(key) ?? []).filter((address) => type === familyOf(address));
  const common = { name, type, class: Packet.CLASS.IN, ttl: 0 };
  for (const data of texts) answer.answers.push({ ...common, data } as never);
  for (const address of found) answer.answers.push({ ...common, address } as never);
  return answer.toBuffer();
}

const NO_SUCH_NAME = 3;

function isSilent(type: number, { silent, fault }: DnsServer): boolean {
  return fault === "nothing" || [...silent].some((each) => type === typeOf(each));
}

function familyOf(address: string): number | undefined {
  return typeOf(address.includes(":") ? "AAAA" : "A");
}

function typeOf(name: string): number | undefined {
  return (Packet.TYPE as unknown as Record<string, number>)[name];
}
