// Command sluice runs scenarios of RDMA congestion control on the built-in model
// and shows what came out.
//
//	sluice run timely-table1                 # a built-in scenario
//	sluice run my.yaml --set nic.mtu=4096    # a file, with a key changed
//	sluice list                              # what there is to run and to name
//	sluice show timely-table1                # the scenario itself
//
// Package cli is all of it.
package main

import "github.com/sluice-rdma/sluice/cli"

func main() { cli.Main() }
