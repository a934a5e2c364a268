export function processBirth(pid: number): string | undefined;

export function claim(folder: string): Promise<{ release(): void } | { heldBy: number }>;
