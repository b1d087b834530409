// Remedies in the words of a command line.
#pragma once

#include "ir/support/remedy.h"

namespace tscompile {

// For RemedyWordsScope.
std::string commandLineWords(const Remedy& remedy);

// A setting as its file has it ("strategy=greedy") as an option: "--strategy", "greedy".
std::vector<std::string> optionWords(const std::string& setting);
std::string optionText(const std::string& setting);

}  // namespace tscompile
