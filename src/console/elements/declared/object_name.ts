/** What an object is called in its cluster: `namespace/name`, as far as it is known. */
export function objectName({ namespace, name }: { namespace: string | null; name: string | null }): string {
  return [namespace, name].filter((part) => part !== null).join("/");
}
