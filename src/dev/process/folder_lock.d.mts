export function processBirth(pid: number): string | undefined;

export function lockFolder(folder: string): Promise<{ release(): void } | { heldBy: number }>;
