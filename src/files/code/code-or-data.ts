// Decides which files of a project are code and which are data that happens to be in the same folder. A run that works
// in place sends nothing: svc keeps a copy of its code, for diffs and restores, and records of its data only what shows
// whether it changed.
//
// T1. A large file is data, and so is one of a format that holds data unless it is small.
// T2. The total size of copies is bounded: beyond that, only small files are copied.
// T3. Small data files are hashed; of the rest, only size and time are recorded.

import type { ProjectFile } from "../listing/measured-project.ts";

const CODE_BYTES_MAX = 8 * 1024 ** 2;
const SMALL_BYTES = 64 * 1024;
const COPIED_BYTES_MAX = 256 * 1024 ** 2;
const HASHED_BYTES_MAX = 64 * 1024 ** 2;
const HASHED_IN_ALL_MAX = 256 * 1024 ** 2;

const DATA_ENDINGS = new Set(
  (
    "7z arrow avi avro bin bmp bz2 ckpt csv db distcp dcm feather flac gif gguf gz h5 hdf5 idx jpeg jpg jsonl keras lmdb lz4 mat mkv " +
    "model mov mp3 mp4 msgpack nii npy npz ogg onnx orc parquet pb pickle pkl png pt pth rar rec safetensors sqlite sqlite3 tar tfrecord " +
    "tfrecords tgz tif tiff tsv wav webdataset webm webp xz zarr zip zst"
  ).split(" "),
);

export type Keeping = "copy" | "digest" | "time";

/** How to keep each file, in the order of the files. */
export function keepingsOf(files: readonly ProjectFile[]): Keeping[] {
  let copied = 0;
  let hashed = 0;
  return files.map(({ path, size }) => {
    if (size <= SMALL_BYTES || (!isData(path, size) && copied + size <= COPIED_BYTES_MAX)) {
      copied += size;
      return "copy";
    }
    if (size > HASHED_BYTES_MAX || hashed + size > HASHED_IN_ALL_MAX) return "time";
    hashed += size;
    return "digest";
  });
}

const isData = (path: string, size: number): boolean =>
  size > CODE_BYTES_MAX || DATA_ENDINGS.has(path.slice(path.lastIndexOf(".") + 1).toLowerCase());
