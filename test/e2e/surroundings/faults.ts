import { databaseFaults } from "./database_faults.ts";
import type { Fault } from "./fault.ts";
import { networkFaults } from "./network_faults.ts";
import { processFaults } from "./process_faults.ts";

/** All faults of the soak. */
export const FAULTS: readonly Fault[] = [...databaseFaults, ...networkFaults, ...processFaults];
