package ib

import "testing"

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		(ServiceUC | WriteLastImm).String(): "UC_WRITE_LAST_IMM", SendOnlyInv.String(): "RC_SEND_ONLY_INV",
		CNP.String(): "CNP", Opcode(21).String(): "Opcode(0x15)", Opcode(0xa0).String(): "Opcode(0xa0)",
		WRSendWithInv.String(): "SEND_WITH_INV", WROpcode(200).String(): "WROpcode(200)",
		(AccessLocalWrite | AccessRemoteAtomic).String(): "LOCAL_WRITE|REMOTE_ATOMIC", (AccessRemoteRead | AccessHugeTLB).String(): "REMOTE_READ|HUGETLB", AccessFlags(0).String(): "LOCAL_READ",
		WCRetryExcErr.Error(): "transport retry counter exceeded", RTR.String(): "RTR", UD.String(): "UD",
		EventQPAccessErr.String(): "local access violation work queue error",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// IBA 10.3.1, figure 124: each state's successors beside RESET and ERR.
func TestTransitions(t *testing.T) {
	allowed := map[QPState][]QPState{
		Reset: {Init}, Init: {Init, RTR}, RTR: {RTS}, RTS: {RTS, SQD}, SQD: {SQD, RTS}, SQE: {RTS}, Err: {},
	}
	for from, tos := range allowed {
		for to := Reset; to <= Err; to++ {
			want := to == Reset || to == Err
			for _, ok := range tos {
				want = want || to == ok
			}
			if from.CanBecome(to) != want {
				t.Errorf("%v to %v: %v", from, to, !want)
			}
		}
	}
}

func TestCompletionOfEveryRequest(t *testing.T) {
	for op, want := range map[WROpcode]WCOpcode{
		WRRDMAWrite: WCRDMAWrite, WRRDMAWriteWithImm: WCRDMAWrite, WRSend: WCSend, WRSendWithImm: WCSend, WRSendWithInv: WCSend,
		WRRDMARead: WCRDMARead, WRAtomicCmpAndSwp: WCCompSwap, WRAtomicFetchAndAdd: WCFetchAdd, WRLocalInv: WCLocalInv, WRBindMW: WCBindMW,
	} {
		if got := op.Completion(); got != want {
			t.Errorf("%v completes as %v, want %v", op, got, want)
		}
	}
	for mtu, ok := range map[MTU]bool{256: true, 1024: true, 4096: true, 1000: false, 0: false, 8192: false} {
		if mtu.Valid() != ok {
			t.Errorf("MTU %d: %v", mtu, !ok)
		}
	}
}
