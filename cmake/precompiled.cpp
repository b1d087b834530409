// Nothing: the target that precompiled.h belongs to needs a source.
