complete --keep-order --exclusive --command linkerd-mc --arguments "(LINKERD_MC_COMPLETE=fish linkerd-mc -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
