import type { TcpProxy } from "../../support/surroundings/tcp_proxy.ts";
import { type Fault, moment } from "./fault.ts";
import { BROKEN_ANSWERS } from "./receivers.ts";
import type { World } from "./world.ts";

const SLOW_MS = 100;

type Link = { name: string; proxies(world: World): TcpProxy[] };

const LINKS: Link[] = [
  { name: "to the database", proxies: ({ proxy }) => [proxy] },
  { name: "from PgBouncer to the database", proxies: ({ behindPooler }) => [behindPooler] },
  { name: "from the callers to the APIs", proxies: ({ doors }) => doors },
];

const links = LINKS.flatMap(({ name, proxies }): Fault[] => {
  const broken = (how: "cut" | "stall") => async (world: World, chance: () => number) => {
    for (const proxy of proxies(world)) proxy[how]();
    await moment(chance);
    for (const proxy of proxies(world)) {
      proxy.cut();
      proxy.mend();
    }
  };
  return [
    { name: `connections ${name} cut`, inflict: broken("cut") },
    { name: `connections ${name} silent`, inflict: broken("stall") },
    {
      name: `connections ${name} slow`,
      async inflict(world, chance) {
        for (const proxy of proxies(world)) proxy.slow(SLOW_MS);
        await moment(chance);
        for (const proxy of proxies(world)) proxy.slow(0);
      },
    },
  ];
});

const names: Fault[] = [
  {
    name: "name server silent",
    async inflict({ names }, chance) {
      names.fault = "nothing";
      await moment(chance);
      names.fault = undefined;
    },
  },
  {
    name: "name server never answers AAAA queries",
    async inflict({ names }, chance) {
      names.silent.add("AAAA");
      await moment(chance);
      names.silent.clear();
    },
  },
];

const receivers = BROKEN_ANSWERS.map(
  (broken): Fault => ({
    name: `receivers of webhooks: ${broken}`,
    async inflict({ receivers }, chance) {
      receivers.broken = broken;
      await moment(chance);
      receivers.broken = undefined;
    },
  }),
);

const mail = (["reject", "refuse", "hang up", "stall"] as const).map(
  (how): Fault => ({
    name: `mail server: ${how}`,
    async inflict({ mail, signIn }, chance) {
      mail.behave(how);
      const signingIn = signIn().catch(() => undefined);
      await moment(chance);
      mail.behave("take");
      await signingIn;
      await signIn();
    },
  }),
);

export const networkFaults: readonly Fault[] = [...links, ...names, ...receivers, ...mail];
