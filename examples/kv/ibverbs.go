//go:build ibverbs

package main

import _ "github.com/sluice-rdma/sluice/verbs/ibverbs"
