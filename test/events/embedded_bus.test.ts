import { pino } from "pino";
import { systemClock } from "../../src/clock.ts";
import { createLocalBus } from "../../src/events/consume.ts";
import { describeBus } from "./describe_bus.ts";
import { useDatabase } from "./support/database.ts";

const home = useDatabase();
describeBus("the bus inside a process", home, async () => {
  const log = pino({ level: "silent" });
  const bus = createLocalBus({ database: home.database, clock: systemClock, log });
  return { bus, dispose: () => bus.close() };
});
