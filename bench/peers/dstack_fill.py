"""Puts ended runs into dstack's database by dstack's own code: `dstack_fill.py ROWS`. `dstack.ts` calls it; the server is not running.

Its package brings the functions that make rows for its own tests. They commit each row; here one commit ends each thousand.
"""

import asyncio
import sys
from datetime import datetime, timedelta, timezone

from dstack._internal.core.models.runs import JobStatus, JobTerminationReason, RunStatus, RunTerminationReason
from dstack._internal.server.db import get_session_ctx
from dstack._internal.server.models import ProjectModel, RunModel, UserModel
from dstack._internal.server.testing.common import create_job, create_repo, create_run
from sqlalchemy import func, select


async def fill(rows: int) -> None:
    async with get_session_ctx() as session:
        project = (await session.execute(select(ProjectModel).where(ProjectModel.name == "main"))).scalar_one()
        user = (await session.execute(select(UserModel).where(UserModel.name == "admin"))).scalar_one()
        have = (await session.execute(select(func.count()).select_from(RunModel))).scalar_one()
        repo = await create_repo(session=session, project_id=project.id, repo_name=f"peers-{have}")
        commit = session.commit
        session.commit = session.flush
        start = datetime.now(timezone.utc) - timedelta(days=30)
        for n in range(have, rows):
            at = start + timedelta(seconds=n)
            run = await create_run(
                session=session,
                project=project,
                repo=repo,
                user=user,
                run_name=f"run-{n}",
                status=RunStatus.DONE,
                termination_reason=RunTerminationReason.ALL_JOBS_DONE,
                submitted_at=at,
            )
            await create_job(
                session=session,
                run=run,
                status=JobStatus.DONE,
                submitted_at=at,
                last_processed_at=at,
                termination_reason=JobTerminationReason.DONE_BY_RUNNER,
            )
            if n % 1000 == 999:
                await commit()
                session.expunge_all()
                project = (await session.execute(select(ProjectModel).where(ProjectModel.name == "main"))).scalar_one()
                user = (await session.execute(select(UserModel).where(UserModel.name == "admin"))).scalar_one()
                repo = await create_repo(session=session, project_id=project.id, repo_name=f"peers-{n}")
        await commit()


asyncio.run(fill(int(sys.argv[1])))
