import { describe, expect, test } from "vitest";
import { bootVerdict } from "../../src/providers/boot-words.ts";

describe("Messages of a failure that another host would repeat", () => {
  test.each([
    "Error response from daemon: manifest for me/train:nope not found: manifest unknown: manifest unknown",
    "pull access denied for me/secret, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
    'failed to resolve reference "docker.io/me/x:y": docker.io/me/x:y: not found',
    "no matching manifest for linux/amd64 in the manifest list entries",
    'OCI runtime create failed: runc create failed: exec: "bash": executable file not found in $PATH',
    "invalid reference format",
    'OCI runtime create failed: exec: "/start.sh": stat /start.sh: no such file or directory: unknown',
    'OCI runtime create failed: runc create failed: exec: "/app/run": permission denied: unknown',
    "Head https://1.dkr.ecr.us-east-1.amazonaws.com/v2/me/manifests/x: no basic auth credentials",
  ])("%s", (words) => {
    expect(bootVerdict(words)).toMatchObject({ elsewhere: false });
  });
});

describe("Messages of a failure of this host alone", () => {
  test.each([
    "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version",
    "OCI runtime create failed: container_linux.go:380",
    'Back-off pulling image "me/train:x": ImagePullBackOff',
    "filesystem layer verification failed for digest sha256:0a1b",
    "toomanyrequests: You have reached your pull rate limit.",
    "failed to register layer: write /usr/lib/x: no space left on device",
    'failed to resolve reference "docker.io/me/x:y": dial tcp: i/o timeout',
    'Error response from daemon: could not select device driver "" with capabilities: [[gpu]]',
  ])("%s", (words) => {
    expect(bootVerdict(words)).toMatchObject({ elsewhere: true });
  });
});

test("Messages of a working machine are ignored, and the first bad line of many counts", () => {
  for (const words of [
    "",
    "loading image layer 3 of 12",
    "success, running me/train/ssh",
    "Pulling from library/ubuntu",
  ])
    expect(bootVerdict(words)).toBeNull();
  expect(bootVerdict("pulling\nmanifest unknown\u001b[2K\nno space left on device")).toEqual({
    why: "manifest unknown [2K",
    elsewhere: false,
  });
  expect(bootVerdict(`no space left on device ${"x".repeat(10_000)}`)?.why.length).toBeLessThan(450);
});
