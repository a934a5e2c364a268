/** The pattern, for `like`, of texts that contain this one as it is written. */
export function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, "\\$&")}%`;
}
