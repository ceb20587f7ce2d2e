//go:build linux

package virtual

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// step is a change of a queue pair's state.
type step struct{ from, to ib.QPState }

// masks are the attributes that a step needs, and those it takes beside them.
type masks struct{ required, optional uint32 }

// Attributes that come together.
const (
	initAttributes  = uverbs.QPPKeyIndex | uverbs.QPPort
	inUseOfUD       = uverbs.QPCurState | uverbs.QPQKey
	inUseOfUC       = uverbs.QPCurState | uverbs.QPAltPath | uverbs.QPAccessFlags | uverbs.QPPathMigState
	inUseOfRC       = inUseOfUC | uverbs.QPMinRNRTimer
	connectOfUC     = uverbs.QPAV | uverbs.QPPathMTU | uverbs.QPDestQPN | uverbs.QPRQPSN
	connectOptional = uverbs.QPAltPath | uverbs.QPAccessFlags | uverbs.QPPKeyIndex
	drainedOfUC     = uverbs.QPAV | uverbs.QPAltPath | uverbs.QPAccessFlags | uverbs.QPPKeyIndex | uverbs.QPPathMigState
	readyToSendOfRC = uverbs.QPTimeout | uverbs.QPRetryCnt | uverbs.QPRNRRetry | uverbs.QPSQPSN | uverbs.QPMaxQPRdAtomic
	drainedOfRC     = uverbs.QPPort | uverbs.QPTimeout | uverbs.QPRetryCnt | uverbs.QPRNRRetry | uverbs.QPMaxQPRdAtomic | uverbs.QPMaxDestRdAtomic | uverbs.QPMinRNRTimer
	responderOfRC   = uverbs.QPMaxDestRdAtomic | uverbs.QPMinRNRTimer
	asynchronousSQD = uverbs.QPEnSQDAsyncNotify
	stateItself     = uverbs.QPState
	presentState    = uverbs.QPCurState
)

// steps are the changes of state by type, as the kernel's verbs layer checks them
// (ib_modify_qp_is_ok; IBA 11.2.5.2, table 91). To RESET and ERR any state goes, with no
// attributes.
var steps = map[ib.QPType]map[step]masks{
	ib.UD: {
		{ib.Reset, ib.Init}: {initAttributes | uverbs.QPQKey, 0},
		{ib.Init, ib.Init}:  {0, initAttributes | uverbs.QPQKey},
		{ib.Init, ib.RTR}:   {0, uverbs.QPPKeyIndex | uverbs.QPQKey},
		{ib.RTR, ib.RTS}:    {uverbs.QPSQPSN, inUseOfUD},
		{ib.RTS, ib.RTS}:    {0, inUseOfUD},
		{ib.RTS, ib.SQD}:    {0, asynchronousSQD},
		{ib.SQD, ib.RTS}:    {0, inUseOfUD},
		{ib.SQD, ib.SQD}:    {0, uverbs.QPPKeyIndex | uverbs.QPQKey},
		{ib.SQE, ib.RTS}:    {0, inUseOfUD},
	},
	ib.UC: {
		{ib.Reset, ib.Init}: {initAttributes | uverbs.QPAccessFlags, 0},
		{ib.Init, ib.Init}:  {0, initAttributes | uverbs.QPAccessFlags},
		{ib.Init, ib.RTR}:   {connectOfUC, connectOptional},
		{ib.RTR, ib.RTS}:    {uverbs.QPSQPSN, inUseOfUC},
		{ib.RTS, ib.RTS}:    {0, inUseOfUC},
		{ib.RTS, ib.SQD}:    {0, asynchronousSQD},
		{ib.SQD, ib.RTS}:    {0, inUseOfUC},
		{ib.SQD, ib.SQD}:    {0, drainedOfUC},
		{ib.SQE, ib.RTS}:    {0, uverbs.QPCurState | uverbs.QPAccessFlags},
	},
	ib.RC: {
		{ib.Reset, ib.Init}: {initAttributes | uverbs.QPAccessFlags, 0},
		{ib.Init, ib.Init}:  {0, initAttributes | uverbs.QPAccessFlags},
		{ib.Init, ib.RTR}:   {connectOfUC | responderOfRC, connectOptional},
		{ib.RTR, ib.RTS}:    {readyToSendOfRC, inUseOfRC},
		{ib.RTS, ib.RTS}:    {0, inUseOfRC},
		{ib.RTS, ib.SQD}:    {0, asynchronousSQD},
		{ib.SQD, ib.RTS}:    {0, inUseOfRC},
		{ib.SQD, ib.SQD}:    {0, drainedOfUC | drainedOfRC},
	},
}

// allowed reports whether a queue pair may be modified so.
func allowed(t ib.QPType, from, to ib.QPState, mask uint32) bool {
	if mask&presentState != 0 && (from < ib.RTR || from > ib.SQE) {
		return false
	}
	if to == ib.Reset || to == ib.Err {
		return mask&^(stateItself|presentState) == 0
	}
	m, known := steps[t][step{from, to}]
	return known && mask&m.required == m.required && mask&^(m.required|m.optional|stateItself) == 0
}
