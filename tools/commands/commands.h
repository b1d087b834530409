// The verbs. Each takes the parsed command line and returns the exit code.
#pragma once

#include "tools/options/options.h"
#include "tools/session/session.h"

namespace tscompile {

int runParse(const Options& options, Session& session);
int runLint(const Options& options, Session& session);
int runLower(const Options& options, Session& session);
int runRewrite(const Options& options, Session& session);
int runPasses(const Options& options, Session& session);
int runRun(const Options& options, Session& session);
int runBench(const Options& options, Session& session);
int runProfile(const Options& options, Session& session);
int runPartition(const Options& options, Session& session);
int runExplain(const Options& options, Session& session);
int runCompile(const Options& options, Session& session);
int runVerify(const Options& options, Session& session);
int runBuild(const Options& options, Session& session);
int runRefit(const Options& options, Session& session);
int runGenerate(const Options& options, Session& session);
int runPlugins(const Options& options, Session& session);
int runDiff(const Options& options, Session& session);
int runOps(const Options& options, Session& session);
int runInspect(const Options& options, Session& session);
int runVersion(const Options& options, Session& session);
int runCompletion(const Options& options, Session& session);
int runHelp(const Options& options, Session& session);

// Help of the whole tool and of one verb.
std::string generalHelp();
std::string verbHelp(const VerbSpec& verb);

}  // namespace tscompile
