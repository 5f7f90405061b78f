// The words of docs/quality/side-by-side.md around its tables. `page.ts` joins them.

export const BEFORE = `# Side by side

svc next to two programs that many people use to rent GPUs, [SkyPilot](https://docs.skypilot.co) and [dstack](https://dstack.ai): room, time, memory, and the
machines that are still billed after a fault. \`npm run bench:peers\` (\`bench/peers/run.ts\`) installs all three and makes this page; CI does not run it.
[bench/peers/README.md](../../bench/peers/README.md) says how each program was driven.

The three programs are not the same thing. SkyPilot chooses among more than twenty clouds and Kubernetes, serves models, runs pools of workers, moves
managed jobs between clouds, and many people share one server. dstack has fleets, volumes, development environments, services with a gateway, and
projects with several users. Both have been used in production for years. svc has four providers and one user, and does training runs.
Its peers pay for their breadth with room and start time; a person who needs it pays gladly. The authors of svc wrote both the simulator and the questions, and the
questions are about what svc was built for: other questions would have other winners.`;

export const LEAKS = `## Machines left

Every program rents one RTX 4090 from the same simulated provider, which speaks RunPod's two APIs and bills by the second, with a price cap of $1 an hour. The
fault strikes; then the user does nothing for two minutes (deletes that fail or have no effect: one minute; a machine that never comes up: 11 minutes); then the user asks the program to end
everything that it knows, and asks again two minutes later if it still lists something. A machine that is billed five minutes after the first
request is *left*: only a look at the provider's own page would find it. In brackets, *1 of 2 billed alone* means that the provider made
two machines in all, and still billed one just before the user asked; *asked 2 times* that the user had to ask again; the dollars are the cost of all machines of
the run. A machine that is billed before the user asks is not wrong by itself: a run may be using it.

\`kill -9\` strikes the server and its commands at once, and the server is started again two seconds later.`;

export const AFTER = `How to read it:

- **The reply of create is lost, or is a 500, or the program dies before it.** dstack records the id that the provider returns, so a machine without an answer is
  unknown to it: it rents another one, and the first stays. SkyPilot looks for its cluster's name in the provider's list, finds the machine, ends it and
  tries the next zone. svc writes the name of the machine down before it asks, finds the machine, and uses it.
- **A delete that is accepted without effect.** SkyPilot and dstack take the provider's answer for the end of the machine. svc looks again and repeats the delete until the
  machine is gone.
- **A delete that fails**, and a kill during it. svc and dstack repeat the delete by themselves. SkyPilot reports the failure and keeps the cluster in its list; its user asks again,
  and then it succeeds.
- **A kill while the machine is made.** SkyPilot and svc find the machine by its name after the restart. dstack has no id for it and rents another one.
- **Price.** SkyPilot and dstack compare the cap with their price list before the order and not with the bill. svc ends the machine when its price is known.
- **A machine that never comes up.** None of the three had given up after 11 minutes, and all three ended it when they were asked.
- **A kill with the machine ready.** All three find it again. svc continues the run; the other two had none to continue, because their own programs cannot be
  installed on the simulated machine (below).
- **Dollars** include runs that did what they were asked to do. They compare waste only where two programs did the same.

## What was not measured, and why

- **A second round.** Each fault was played once, three or six of them at the same time.
- **A quiet computer.** Other programs were at work on it (the load average is at the top; up to 50 on two cores while the first faults were played).
  Times are longer than on an idle one; the processor times are changed least. Waits were as long as the rules say, and longer where a server
  needed more time to start. SkyPilot's processor time at its start was measured an hour after its other times, at a load of 19, because the first count was wrong.
- **From a submission to the first line.** SkyPilot installs its runtime on each machine from the network, and dstack downloads its runner; the simulated
  machines reach nothing. Neither got further than a machine that is up. svc brings its runner along; its own time is in [benchmarks.md](benchmarks.md).
- **SkyPilot's managed jobs**, whose controller watches a cluster and starts it again, need a machine of their own with that runtime. They might end or
  find machines that \`sky launch\` does not.
- **dstack with PostgreSQL, SkyPilot's server for a team**, and both with more than one user: each ran as one person starts it on a laptop.
- **Other providers.** Both peers have many; a fault may end otherwise there.
- **SkyPilot's rows** are clusters that are up, because it lists clusters; those of dstack and svc are runs that have ended. Few people have 20,000 clusters.
- **Pages.** \`svc jobs\` and its HTTP list show 50 rows, dstack 50 by request (\`ps -n 50\`), SkyPilot all: it has no pages. So its lists of 1,000 and 20,000 rows have no ratio.`;
