import { createSocket } from "node:dgram";
import DNS from "dns2";

export type DnsServer = {
  /** The server's address in the format of the service's setting. */
  address: string;
  /** TXT records by name, each as a list of chunks. */
  records: Map<string, string[][]>;
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

function answerOf(request: DNS.Packet, { records, asked, fault }: DnsServer): Buffer | undefined {
  const [question] = request.questions;
  if (question === undefined) return undefined;
  const { name, type } = question;
  asked.push({ name, type });
  if (fault === "nothing") return undefined;
  const answer = Packet.createResponseFromRequest(request);
  const found = type === Packet.TYPE.TXT ? records.get(name.toLowerCase()) : undefined;
  answer.header.rcode = fault ?? (records.has(name.toLowerCase()) ? 0 : 3);
  for (const data of fault === undefined ? (found ?? []) : []) {
    answer.answers.push({ name, type: Packet.TYPE.TXT, class: Packet.CLASS.IN, ttl: 0, data } as never);
  }
  return answer.toBuffer();
}
