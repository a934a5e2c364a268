/** The environment of the process that runs the proxy. */
export const environment: Readonly<Record<string, string | undefined>> = process.env;
