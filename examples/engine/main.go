// Command engine is sluice with one more rate engine in it.
package main

import (
	"github.com/sluice-rdma/sluice/cli"

	_ "github.com/sluice-rdma/sluice/examples/engine/aimd" // registers itself
)

func main() { cli.Main() }
