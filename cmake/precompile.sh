#!/bin/sh
# Runs a compiler by way of ccache without the precompiled header that it is to replace. ccache would take that header for
# what the new one is made from, and hand out one that was made from other sources.
for word; do
  case $word in *.gch) rm -f "$word" ;; esac
done
exec "$@"
