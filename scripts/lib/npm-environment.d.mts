export function npmEnvironment(root: string): NodeJS.ProcessEnv;
