import { HOSTILE_SETTINGS } from "../../support/surroundings/hostile_postgres.ts";
import { FAILOVERS } from "../../support/surroundings/postgres_pair.ts";
import { mayMount } from "../../support/surroundings/small_disk.ts";
import { type Fault, moment } from "./fault.ts";
import type { World } from "./world.ts";

const failovers = FAILOVERS.map(
  (how): Fault => ({
    name: `database failed over, old primary ${how}`,
    async inflict(world, chance) {
      await world.failOver(how);
      await moment(chance);
      await world.renew();
    },
  }),
);

/** Ends all connections to the databases, so that new ones have the server's new defaults. */
function reconnect({ proxy, behindPooler }: World): void {
  for (const one of [proxy, behindPooler]) {
    one.cut();
    one.mend();
  }
}

const disk: Fault[] = mayMount
  ? [
      {
        name: "disk of the database full",
        async inflict({ disk, revive }, chance) {
          disk?.fill();
          await moment(chance);
          disk?.free();
          await revive();
        },
      },
    ]
  : [];

export const databaseFaults: readonly Fault[] = [
  ...failovers,
  ...disk,
  {
    name: "database with hostile defaults",
    async inflict(world, chance) {
      for (const [name, value] of Object.entries(HOSTILE_SETTINGS)) {
        const listed = name === "search_path" ? value : `'${value}'`;
        await world.sql(`alter database deputize set ${name} = ${listed}`);
      }
      reconnect(world);
      await moment(chance);
      await world.sql("alter database deputize reset all");
      reconnect(world);
    },
  },
  {
    name: "PgBouncer killed",
    async inflict({ pooler }, chance) {
      await pooler.kill();
      await moment(chance);
      await pooler.start();
    },
  },
];
