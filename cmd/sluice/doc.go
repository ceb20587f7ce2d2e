// Command sluice runs scenarios of RDMA congestion control on the built-in model
// and shows what came out.
//
//	sluice run timely-table1                 # a built-in scenario
//	sluice run my.yaml --set nic.mtu=4096    # a file, with a key changed
//	sluice list                              # what there is to run and to name
//	sluice show timely-table1                # the scenario itself
//
// It exits with 0 if all is well, 1 if a run failed, 2 if it was called wrongly or
// a scenario is at fault, and 3 if a limit that a scenario states was missed.
package main
