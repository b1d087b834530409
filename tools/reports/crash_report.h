// What is needed to repeat a failure that is ours.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tscompile {

void rememberCommandLine(std::span<const std::string> args);
// The words of the latest call.
const std::vector<std::string>& rememberedCommandLine();
// Writes a file with the failure, the version, the command line and the texts that it names, without weights or
// tensors, to the folder for temporary files. Its path; empty if it cannot be written.
std::string writeCrashReport(const std::string& failure);

}  // namespace tscompile
