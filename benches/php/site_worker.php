<?php
// Answers requests of a site, for benches/harness/sites.py.
require __DIR__ . '/../../sdk/php/src/autoload.php';
require __DIR__ . '/site_answers.php';

use Stoker\Http\Request;
use Stoker\Http\Response;

Stoker\Worker::create()->onRequest(fn (Request $request) => match ($request->path()) {
    '/upload' => Response::text((string) strlen($request->body())),
    '/form' => Response::text((string) $request->files()['file']->size),
    '/sendfile' => Response::file($request->documentRoot() . '/1m.bin'),
    default => Response::text(answer_to($request->path())),
})->run();
