// Memory that shows files. What was read of it can be given back to the system, since it can be read again.
#pragma once

#include <cstddef>

namespace tscompile {

// Whoever maps a file tells it, from before its bytes are read until it is unmapped. Nobody writes there.
void addFilePages(const void* data, size_t bytes);
void removeFilePages(const void* data);

// Whether a file is shown there. For signal handlers: true if that cannot be told now.
bool mayShowFile(const void* data);

// The pages that lie wholly in these bytes need not stay in memory. Does nothing to memory that shows no file.
void releaseFilePages(const void* data, size_t bytes);

}  // namespace tscompile
