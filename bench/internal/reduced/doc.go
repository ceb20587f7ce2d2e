// Package reduced is a NIC with only the timing that a fabric study sees: the line
// rate and fixed latencies. It has no PCIe, no stages and no memory; package
// nicmodel has those. The parts that decide who sends what and when are the same:
// the transport is roce/rc, the engines are those of package cc, and a queue pair's
// congestion control is configured by nicmodel.Congestion.
//
// All NICs of a network are one Fleet. A flow is a queue pair at each end, made by
// Start; it posts Writes or READs of its message size, a few ahead. The flow and its state
// are removed when the last is acknowledged, or answered. A connection is a flow whose user posts
// each message, is told of it at either end, and closes it.
//
// # The model
//
// The latencies of sending and receiving are the fabric's (Config.HostSend and
// HostReceive of package fabric): parts of the host's link, so that they cost no event.
// The latency before the choice of a flow's first packet (Config.Start), and that between
// a choice and the wire (Config.Fetch, Config.TxPackets), delay a flow when it joins the
// queue. They do not delay the packets that follow while it stays there. The latency of
// completions is added to the time at which a flow is reported done; it holds back no
// message, because several are posted ahead.
//
// The host's wire carries acknowledgements first and, between them, the flow that
// has been due longest: flows that are not paced take turns, and READ responses as a whole
// take turns with requests. A data frame is chosen
// when the one before has left, and follows the acknowledgements that were queued
// meanwhile. Pacing and window are those of nicmodel: a rate at or above the line
// rate means no pacing. A flow may always have one packet outstanding, unless its
// window is 0 because it waits for a grant, and one more where no answer is due
// (cc.Driver.MayAsk).
//
// Where an engine chooses paths (cc.Pathed), the flow's next packet waits until those
// under way have been acknowledged; acknowledgements go by the path of what they answer.
//
// Where receivers take part (Config.Receiver), one at each host sees every packet
// that is placed there; each grant is a packet with the priority of
// acknowledgements. Where engines choose priorities (Config.Classes), the most
// urgent flow that is due goes first.
//
// # What it costs
//
// A data packet costs an event at its sender where another is to follow it, and
// none at its receiver other than the fabric's arrival. An acknowledgement costs no
// event: it is sent in the arrival of the packet that it answers, in the same slot
// of the packet slab. A NIC has one event for all its retransmission timers.
// Nothing is allocated for a packet; a flow takes two queue pairs (about 2 KiB)
// while it lasts.
//
// # In a divided network
//
// A NIC's events belong to its host's node, and run on any worker. Flows start
// between windows, now or ahead of time (StartAt). Their end is also reported
// between windows, so a flow that is to follow another starts up to a window late;
// the times in Done are exact. Messages of connections are events of the engine,
// Config.Completion after what the host learns, and windows are no longer than that. The
// receiving half of a flow is removed some time after the sending half has ended, divided
// or not: the least delay of a path between hosts (fabric.Network.BetweenHosts), or of a
// link where receivers grant. Before that the receiver could not know.
//
// # Limits
//
// No Sends, and no READs where receivers grant. A frame that has been put behind others on
// the wire is sent although a pause arrives before its first bit.
package reduced
