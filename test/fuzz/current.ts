const HEADER_BYTES = 16;
const CAPACITY = 1 << 18;
const [COUNT, LENGTH, NAME_LENGTH] = [0, 1, 2];

/** The input that a thread is running. Another thread can read it even if the first thread hangs. */
export type Current = {
  readonly memory: SharedArrayBuffer;
  write(name: string, input: Uint8Array): void;
  /** Returns the running input. `count` increases with every input. */
  read(): { count: number; name: string; input: Uint8Array };
};

export function shareCurrent(memory = new SharedArrayBuffer(HEADER_BYTES + CAPACITY)): Current {
  const header = new Int32Array(memory, 0, HEADER_BYTES / 4);
  const content = new Uint8Array(memory, HEADER_BYTES);
  return {
    memory,
    write: (name, input) => {
      const bytes = Buffer.concat([Buffer.from(name), input]);
      content.set(bytes);
      header[LENGTH] = bytes.length;
      header[NAME_LENGTH] = bytes.length - input.length;
      Atomics.add(header, COUNT, 1);
    },
    read: () => {
      const bytes = Buffer.from(content.slice(0, header[LENGTH]));
      const [name, input] = [bytes.subarray(0, header[NAME_LENGTH]), bytes.subarray(header[NAME_LENGTH])];
      return { count: Atomics.load(header, COUNT), name: name.toString(), input };
    },
  };
}
