/** A part of `kafkajs` that has no types of its own. */
declare module "kafkajs/src/network/requestQueue/index.js" {
  type Queue = {
    pending: unknown[];
    throttledUntil: number;
    throttleCheckTimeoutId: NodeJS.Timeout | null;
    checkPendingRequests(): void;
    scheduleCheckPendingRequests(): void;
  };
  const RequestQueue: { prototype: Queue };
  export default RequestQueue;
}

declare module "kafkajs/src/protocol/encoder.js" {
  export default class Encoder {
    writeArray(values: readonly string[]): this;
    writeBoolean(value: boolean): this;
  }
}

declare module "kafkajs/src/protocol/decoder.js" {
  export default class Decoder {
    constructor(buffer: Buffer);
    readInt16(): number;
    readInt32(): number;
    readString(): string | null;
    readBoolean(): boolean;
    readBytes(): Buffer | null;
    readArray<T>(read: (decoder: Decoder) => T): T[];
  }
}

declare module "kafkajs/src/broker/index.js" {
  import type ConnectionPool from "kafkajs/src/network/connectionPool.js";
  import type Encoder from "kafkajs/src/protocol/encoder.js";

  type Exchange<T> = {
    request: { apiKey: number; apiVersion: number; apiName: string; encode(): Promise<Encoder> };
    response: { decode(payload: Buffer): Promise<T>; parse(decoded: T): Promise<T> };
  };
  type ConfigEntry = { configName: string; configValue: string };
  type ConfigRequest = { type: number; name: string; configNames: string[] };
  export default class Broker {
    constructor(options: { connectionPool: ConnectionPool; logger: unknown });
    connectionPool: { send<T>(exchange: Exchange<T>): Promise<T> };
    connect(): Promise<void>;
    disconnect(): Promise<void>;
    findGroupCoordinator(options: {
      groupId: string;
      coordinatorType: number;
    }): Promise<{ coordinator: { nodeId: number; host: string; port: number } }>;
    describeConfigs(options: {
      resources: readonly ConfigRequest[];
    }): Promise<{ resources: { resourceName: string; configEntries: ConfigEntry[] }[] }>;
  }
}

declare module "kafkajs/src/network/connectionPool.js" {
  export default class ConnectionPool {
    constructor(options: Record<string, unknown>);
  }
}

declare module "kafkajs/src/network/socketFactory.js" {
  export default function createSocketFactory(): unknown;
}
