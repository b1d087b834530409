// The one thread pool of the process. Work is cut into chunks by shape alone, so results never depend on the number
// of threads that take part.
#pragma once

#include "runtime/call/function_ref.h"

#include <cstdint>

namespace tscompile {

// Calls body(0) ... body(chunks - 1), each once, in any order, from up to `threads` threads of which the caller is one.
// Returns when all are done; the first exception of a chunk is rethrown here, and chunks not yet begun are skipped.
// Runs serially in the caller when threads or chunks is 1, when the pool is busy with another caller's work, and when
// called from inside a chunk. Handing work over pays from about 20 us of work upwards: the caller decides.
void parallelFor(int64_t chunks, int threads, FunctionRef<void(int64_t chunk)> body);

// Inside of a chunk: the one that this thread is likely to run next, if it exists; of chunks in groups of `alike` the
// first that it will run of another group.
int64_t chunkAfter(int64_t chunk, int64_t alike = 1);

// The number of processors this process may use: what `threads` is when nobody asked for another number.
int defaultThreads();

// Pieces of [0, count) of equal size but for the last: piece i of `pieces` is [begin, end).
struct Piece {
  int64_t begin, end;
};
inline Piece pieceOf(int64_t count, int64_t pieces, int64_t i) {
  // The first count % pieces are one longer.
  int64_t size = count / pieces, longer = count % pieces;
  int64_t begin = i * size + (i < longer ? i : longer);
  return {begin, begin + size + (i < longer ? 1 : 0)};
}

}  // namespace tscompile
